import { MediaQuery } from "svelte/reactivity";

/** Whether the window is as narrow as a phone's: `current`. As app.css has it. */
export const narrow = new MediaQuery("(max-width: 760px)");
