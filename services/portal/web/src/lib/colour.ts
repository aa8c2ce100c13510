/** What colours of the page's variables come to, so that a canvas follows light and dark; `host` is where they hold. */
export function colours(host: HTMLElement): (name: string) => string {
  const own = document.createElement("canvas").getContext("2d")!;
  return (name) => {
    // light-dark() is the page's; a canvas takes the colour that it comes to.
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    host.append(probe);
    own.fillStyle = getComputedStyle(probe).color;
    probe.remove();
    return String(own.fillStyle);
  };
}
