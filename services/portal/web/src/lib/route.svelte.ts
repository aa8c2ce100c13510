/** Where the page is, as state: the path and what stands behind the question mark. */
export const route = $state({ path: location.pathname, search: location.search });

function now(): void {
  route.path = location.pathname;
  route.search = location.search;
}
addEventListener("popstate", now);

/** Go to a page of ours. */
export function go(href: string): void {
  history.pushState(null, "", href);
  now();
  document.getElementById("main")?.focus();
}

/** Say in the address what is shown, without a new entry of the history. */
export function say(parameters: Record<string, string>): void {
  const kept = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  history.replaceState(null, "", location.pathname + (kept.size ? `?${kept}` : ""));
  now();
}

/** Say something more in the address; what is empty is taken out of it, and all else stays. */
export function amend(parameters: Record<string, string>): void {
  say({ ...Object.fromEntries(new URLSearchParams(location.search)), ...parameters });
}

/** What the address says of a parameter; empty when nothing. */
export const said = (name: string): string => new URLSearchParams(route.search).get(name) ?? "";

/** Links stay inside the page; modified clicks and what leads elsewhere are the browser's. */
export function follow(event: MouseEvent): void {
  const link = (event.target as Element).closest("a");
  const modified = event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  if (
    !link ||
    link.origin !== location.origin ||
    modified ||
    link.target ||
    link.pathname.startsWith("/auth/")
  )
    return;
  event.preventDefault();
  go(link.pathname + link.search);
}
