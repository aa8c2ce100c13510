/* What of the checklist of docs/portal.md a program can judge, of the page as it is drawn now: a list of faults, each
   with the point that it is about. Contrast is axe's. */
(() => {
  const faults = [];
  const main = document.querySelector("main") ?? document.body;
  const say = (point, what, element) => {
    const where = (element.className && typeof element.className === "string" ? `.${element.className}` : "").trim();
    const text = (element.textContent || element.placeholder || "").replace(/\s+/g, " ").trim().slice(0, 70);
    faults.push(`${point}: ${what}: <${element.tagName.toLowerCase()}${where}> ${text}`);
  };
  const all = (selector, from = main) => [...from.querySelectorAll(selector)];
  const seen = element => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".sr, .skip");
  const OWN = ".cm-editor, .chart, canvas, svg";
  const foreign = element => !!element.closest(OWN);
  const styleOf = element => getComputedStyle(element);
  const scrolls = element => /auto|scroll/.test(styleOf(element).overflowX + styleOf(element).overflowY);
  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = (text, element) => {
    const { fontStyle, fontWeight, fontSize, fontFamily } = styleOf(element);
    pen.font = `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`;
    return pen.measureText(text).width;
  };

  /** Lines of text that are drawn, as far as what scrolls shows them: {box, element}. */
  function lines() {
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const element = walk.currentNode.parentElement;
      if (!walk.currentNode.data.trim() || !element || !seen(element) || foreign(element)) continue;
      if (element.closest("script, style, option, textarea")) continue;
      const range = document.createRange();
      range.selectNodeContents(walk.currentNode);
      for (const box of range.getClientRects()) {
        if (box.width < 2 || box.height < 2) continue;
        found.push({ box, element, text: walk.currentNode.data.trim() });
      }
    }
    return found;
  }
  const texts = lines();

  // 1. Cut text: what is cut has all of it as its hover text; nothing leaves its box; what stands in fields fits.
  for (const element of all("*", document.body)) {
    if (!seen(element) || foreign(element) || !element.clientWidth) continue;
    if (element.matches("input, textarea")) continue; // whose text moves with the caret
    const style = styleOf(element);
    if (element.title && element.matches(".clip")) continue;
    if (/hidden|clip/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 1)
      say("cut", `${element.scrollWidth - element.clientWidth} px`, element);
    if (/hidden|clip/.test(style.overflowY) && element.scrollHeight > element.clientHeight + 3 && element.tagName !== "HTML")
      say("cut", `${element.scrollHeight - element.clientHeight} px of height`, element);
  }
  for (const field of all("input[placeholder], select", document.body)) {
    if (!seen(field) || !field.clientWidth) continue;
    const select = field.tagName === "SELECT";
    const text = select ? (field.selectedOptions[0]?.textContent ?? "") : field.value ? "" : field.placeholder;
    const { paddingLeft, paddingRight } = styleOf(field);
    const room = field.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight) - (select ? 16 : 0);
    if (widthOf(text.trim(), field) > room + 2) say("cut", `"${text.trim()}" in ${Math.round(room)} px`, field);
  }
  const boxOf = element => element.getBoundingClientRect();
  for (const { box, element } of texts) {
    for (let around = element; around && around !== document.body; around = around.parentElement) {
      if (scrolls(around) || /hidden|clip/.test(styleOf(around).overflowX)) break;
      if (styleOf(around).position === "absolute" || styleOf(around).display.startsWith("inline")) continue;
      const outer = boxOf(around);
      const spaces = element.tagName === "PRE" ? 10 : 1; // those at the end of a line hang
      if (box.right <= outer.right + spaces && box.left >= outer.left - 1) continue;
      say("cut", `leaves <${around.tagName.toLowerCase()}> by ${Math.round(box.right - outer.right)} px`, element);
      break;
    }
  }
  for (const element of all("button, a, input, select, textarea", document.body)) {
    if (!seen(element) || foreign(element)) continue;
    let around = element.parentElement;
    while (around && around !== document.body && !scrolls(around)) around = around.parentElement;
    const box = boxOf(element);
    if (around?.matches("main, body") && (box.right > innerWidth + 1 || box.left < -1))
      say("cut", "beyond the window", element);
  }

  // On a phone nothing is moved aside to be read; an editor's lines and what is drawn are their own.
  if (innerWidth < 400)
    for (const element of all("*", document.body)) {
      const beyond = element.scrollWidth - element.clientWidth;
      if (beyond > 1 && /auto|scroll/.test(styleOf(element).overflowX) && seen(element) && !foreign(element))
        say("cut", `moved aside by ${beyond} px`, element);
    }

  // 2. Overlap: no text on other text or on a control that it does not belong to.
  const clipped = (box, element) => {
    let { left, right, top, bottom } = box;
    for (let around = element.parentElement; around && around !== document.body; around = around.parentElement) {
      if (!scrolls(around) && !/hidden|clip/.test(styleOf(around).overflowX)) continue;
      const outer = boxOf(around);
      [left, top] = [Math.max(left, outer.left), Math.max(top, outer.top)];
      [right, bottom] = [Math.min(right, outer.right), Math.min(bottom, outer.bottom)];
    }
    return { left, right, top, bottom };
  };
  const layer = element => {
    for (let around = element; around; around = around.parentElement)
      if (/absolute|fixed|sticky/.test(styleOf(around).position)) return around;
    return null;
  };
  const boxes = texts.map(({ box, element }) => ({ ...clipped(box, element), element, on: layer(element) }));
  for (const element of all("input, select, textarea, button, a.button", document.body))
    if (seen(element) && !foreign(element))
      boxes.push({ ...clipped(boxOf(element), element), element, on: layer(element) });
  boxes.sort((one, other) => one.top - other.top);
  for (let at = 0; at < boxes.length; at++)
    for (let next = at + 1; next < boxes.length && boxes[next].top < boxes[at].bottom - 3; next++) {
      const [one, other] = [boxes[at], boxes[next]];
      if (one.on !== other.on || one.element.contains(other.element) || other.element.contains(one.element)) continue;
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (wide > 3 && high > 5) say("overlap", other.element.textContent.trim().slice(0, 40), one.element);
    }

  // 3. Empty state: no table, list or card stands there with nothing in it.
  for (const element of all("table, ul, ol, dl, .card"))
    if (seen(element) && !foreign(element) && boxOf(element).height > 0) {
      const body = element.tagName === "TABLE" ? element.tBodies[0] : element;
      if (body && !body.textContent.trim() && !body.querySelector("input, select, textarea, canvas, svg, meter"))
        say("empty", "shows nothing", element);
    }

  // 5. One primary action.
  const primary = all("button.primary, a.button:not(.second)").filter(seen);
  if (primary.length > 1) say("primary", `${primary.length} of them`, primary.at(-1));

  // 6. Alignment: columns stand under their heads; numbers at the right; the parts of a page begin at one edge.
  const side = element => styleOf(element).textAlign.replace("start", "left").replace("end", "right");
  const NUMBER = /^[−-]?[\d.,\u202f\u00a0]+( %)?$/;
  for (const table of all("table:not(.grid table)").filter(seen)) { // a grid shows columns of people's own
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
    const rows = [...(table.tBodies[0]?.rows ?? [])].slice(0, 50);
    heads.filter(seen).forEach(head => { // where rows are cards there are no columns
      const column = head.cellIndex;
      const cells = rows.map(row => row.cells[column]).filter(Boolean);
      if (cells.some(cell => side(cell) !== side(head))) say("alignment", "a head beside its column", head);
      const values = cells.map(cell => cell.textContent.trim()).filter(text => text && text !== "–");
      const numbers = values.length > 0 && values.every(text => NUMBER.test(text));
      if (cells.some(cell => cell.matches(".mono"))) return;
      if (numbers && cells.some(cell => side(cell) !== "right")) say("alignment", "numbers at the left", head);
      // 7. Units: a column of bare numbers says what is counted, or in what.
      if (numbers && !/s$|,| a | of /.test(head.textContent.trim()) && !cells[0].closest("tr").querySelector("th[scope=row]"))
        say("units", "numbers of what?", head);
    });
  }
  for (const page of all(".page")) {
    const inner = boxOf(page).left + parseFloat(styleOf(page).paddingLeft);
    for (const part of page.children)
      if (seen(part) && boxOf(part).width && Math.abs(boxOf(part).left - inner) > 1)
        say("alignment", `begins ${Math.round(boxOf(part).left - inner)} px beside the page's edge`, part);
  }
  for (const row of all(".row")) {
    const own = [...row.children].filter(each => each.matches("button, a.button, input, select") && seen(each));
    for (const [at, each] of own.entries())
      for (const other of own.slice(at + 1)) {
        const [one, two] = [boxOf(each), boxOf(other)];
        if (Math.abs(one.top - two.top) < one.height / 2 && Math.abs(one.height - two.height) > 2)
          say("alignment", `${one.height} beside ${two.height} px`, other);
      }
  }
  // 7. Units, of numbers in cards: their title or what stands behind them says of what.
  for (const value of all("dd"))
    if (seen(value) && NUMBER.test(value.textContent.trim())) {
      const title = value.parentElement.querySelector("dt")?.textContent.trim() ?? "";
      if (!/s$|,| a | of /.test(title)) say("units", `numbers of what? ${title}`, value);
    }

  // 8. Heading: one, which says what the window's title says.
  const heads = all("h1");
  if (heads.length !== 1) say("heading", `${heads.length} of them`, main);
  if (!document.title.replace(/ · Daggers$/, "").trim()) say("heading", "the window has no title", main);

  // 9. Focus order: as one reads. What comes later does not stand above, in the same column.
  const stops = all("a[href], button, input, select, textarea, summary, [tabindex]").filter(
    each => seen(each) && !foreign(each) && !each.disabled && each.tabIndex >= 0 && !layer(each),
  );
  for (const each of all("[tabindex]", document.body)) if (each.tabIndex > 0) say("focus", "out of order", each);
  for (let at = 1; at < stops.length; at++) {
    const [one, two] = [boxOf(stops[at - 1]), boxOf(stops[at])];
    if (stops[at - 1].contains(stops[at])) continue;
    const column = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    if (two.bottom <= one.top + 2 && column > 4) say("focus", "stands above what comes before it", stops[at]);
  }

  // 10. Words: no value that a program left, no command, no sentence that ends twice.
  // 11. Numbers and times as the viewer writes them: thousands apart, no times of machines.
  const raw = "pre, code, .mono, input, textarea, kbd";
  for (const { element, text } of texts) {
    if (!main.contains(element) || element.closest(raw)) continue;
    if (/\bundefined\b|\bNaN\b|\[object |Invalid Date|\bnull\b/.test(text)) say("words", "a program's", element);
    if (text.includes("`")) say("words", "a command", element);
    if (/[^.]\.\.(?!\.)| [.,;](\s|$)|\?\.|:\./.test(text)) say("words", "ends twice", element);
    const bare = text.match(/(?<![\w.,:/\u202f-])\d{4,}(?![\w-])/g)?.filter(each => !/^(19|20)\d\d$/.test(each));
    if (bare?.length) say("locale", `${bare[0]} without its thousands apart`, element);
    if (/\d{4}-\d\d-\d\dT\d\d/.test(text)) say("locale", "a machine's time", element);
  }
  return [...new Set(faults)];
})()
