// Keeps pages up to date. Elements with an id and data-live are fetched again when a log has grown,
// and everyone else is told by the event "turnlog:grown". The title says how many sessions wait.
//
// A browser opens six connections to a server at most, so one tab listens and tells the others.
import { load, morph } from "./swap.js";

const channel = new BroadcastChannel("turnlog");
const title = () => document.title.replace(/^\(\d+\) /, "");
const leastPause = 300;
let last = null, waiting = 0, isStale = false, isBusy = false, isLeader = false;

async function refresh() {
  const parts = [...document.querySelectorAll("[data-live][id]")];
  isStale = true;
  if (document.hidden || isBusy || !parts.length) return;
  isBusy = true;
  isStale = false;
  try {
    const page = await load(location.href);
    for (const part of parts) {
      const now = page.getElementById(part.id);
      // Rows that were loaded while scrolling are not on the first page.
      if (now && part.isConnected && !part.querySelector("[data-loaded]")) morph(part, now);
    }
    await new Promise((done) => setTimeout(done, leastPause));
  } catch { /* The server is gone: the page stays as it is. */ } finally {
    isBusy = false;
  }
  if (isStale) refresh();
}

function tell(news) {
  const more = news.waiting > waiting && last;
  waiting = news.waiting;
  document.title = (waiting ? `(${waiting}) ` : "") + title();
  if (more && isLeader && document.hidden && window.Notification?.permission === "granted")
    new Notification("turnlog", { body: `${news.names[0]} waits for you`, tag: "turnlog" });
  if (last && last.number !== news.number) {
    document.dispatchEvent(new CustomEvent("turnlog:grown", { detail: news }));
    refresh();
  }
  last = news;
}

document.addEventListener("visibilitychange", () => { if (!document.hidden && isStale) refresh(); });
document.addEventListener("turnlog:swapped", () => { document.title = (waiting ? `(${waiting}) ` : "") + title(); });
channel.addEventListener("message", ({ data }) => {
  if (data !== "hello") tell(data);
  else if (isLeader && last) channel.postMessage(last);
});
channel.postMessage("hello");
navigator.locks.request("turnlog-events", () => new Promise(() => {
  isLeader = true;
  new EventSource("/events").addEventListener("message", ({ data }) => {
    const news = JSON.parse(data);
    channel.postMessage(news);
    tell(news);
  });
}));

const bell = document.getElementById("bell");
if (bell && "Notification" in window && Notification.permission === "default") {
  bell.hidden = false;
  bell.addEventListener("click", async () => {
    await Notification.requestPermission();
    bell.hidden = true;
  });
}
