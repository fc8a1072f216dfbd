// The modules of every page.
import "./swap.js";
import "./keys.js";
import "./copy.js";
import "./live.js";
import "./palette.js";
