import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { mend } from "./lib/locale.ts";
import { keep } from "./lib/second.ts";

const AGAIN_MS = 60_000;
// A page that was open while a new version came asks for files that are gone; what fails again is shown.
addEventListener("vite:preloadError", (event) => {
  const before = Number(sessionStorage.getItem("loaded-anew") ?? 0);
  if (Date.now() - before < AGAIN_MS) return;
  sessionStorage.setItem("loaded-anew", String(Date.now()));
  event.preventDefault();
  location.reload();
});
mend(); // before any screen comes, and with it scripts of others
keep();
mount(App, { target: document.getElementById("app")! });
