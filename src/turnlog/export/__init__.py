"""How it looks: inert text, Markdown, HTML and SVG charts; shared by exports, pages and the web."""
