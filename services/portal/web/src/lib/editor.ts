import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  type Completion,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, forEachDiagnostic, lintGutter, lintKeymap } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  hoverTooltip,
  keymap,
  lineNumbers,
  tooltips,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { SqlFunction } from "../gen/daggers/v1/catalog_service_pb.ts";
import { options, source, type Table } from "./completion.ts";

const dialect = SQLDialect.define({
  keywords:
    "select from where group by having as and or not in is null between like case when then else end join left right " +
    "full inner outer on union all distinct interval second minute hour day with lateral table unnest cast true false",
  types: "varchar bigint int double boolean timestamp date decimal string",
  identifierQuotes: "`",
  caseInsensitiveIdentifiers: true,
});
const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--syn-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--syn-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--syn-number)" },
  { tag: [tags.standard(tags.name), tags.typeName], color: "var(--syn-function)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--syn-comment)", fontStyle: "italic" },
]);

/** Take the suggestion at the cursor, or else the first there is. */
function take(view: EditorView): boolean {
  const at = view.state.selection.main.head;
  let best: { found: Diagnostic; from: number; to: number } | undefined;
  forEachDiagnostic(view.state, (found, from, to) => {
    const here = from <= at && at <= to;
    if (found.actions?.length && (!best || here)) best = { found, from, to };
  });
  best?.found.actions![0]!.apply(view, best.from, best.to);
  return best !== undefined;
}

/**
 * Text in place of a selection. Left alone, Chromium keeps the colour of what was there by an inline style, which
 * the page's policy forbids: it would complain at each such key.
 */
function replace(event: InputEvent, view: EditorView): boolean {
  const { from, to, empty } = view.state.selection.main;
  if (event.inputType !== "insertText" || !event.data || empty || view.composing || !event.cancelable)
    return false;
  const text = event.data;
  const insert = () =>
    view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
  const handled = view.state
    .facet(EditorView.inputHandler)
    .some((handler) => handler(view, from, to, text, insert));
  if (!handled) view.dispatch(insert());
  event.preventDefault();
  return true;
}

export interface Options {
  parent: HTMLElement;
  text: string;
  tables: () => Table[];
  functions: () => SqlFunction[];
  changed: (text: string) => void;
  run: () => void;
}

/** What a word of a query is: its type, or how it is called, and what is said of it. */
const explained = ({ tables, functions }: Options) =>
  hoverTooltip((view, at) => {
    const line = view.state.doc.lineAt(at);
    for (const found of line.text.matchAll(/[\w.[\]']+/g)) {
      const from = line.from + found.index;
      const to = from + found[0].length;
      if (at < from || at > to) continue;
      const word = found[0].toLowerCase();
      const known = options(tables(), functions()).find((each) => each.label.toLowerCase() === word);
      if (!known?.detail) return null;
      return { pos: from, end: to, above: true, create: () => ({ dom: said(known) }) };
    }
    return null;
  });
function said({ label, detail, info }: Completion): HTMLElement {
  const dom = document.createElement("div");
  dom.className = "said";
  const name = document.createElement("b");
  name.textContent = `${label} ${detail ?? ""}`;
  const about = document.createElement("p");
  about.textContent = typeof info === "string" ? info : "";
  dom.append(name, about);
  return dom;
}

/** An editor of one query. Tab leaves it, as everything in a page. */
export function editor(told: Options): EditorView {
  const { parent, text, tables, functions, changed, run } = told;
  const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
  const keys = [
    { key: "Mod-Enter", run: () => (run(), true) },
    { key: "Alt-Enter", run: take },
  ];
  return new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        keymap.of([
          ...keys,
          ...lintKeymap,
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...defaultKeymap,
          ...historyKeymap,
        ]),
        tooltips({ tooltipSpace: (view) => view.dom.getBoundingClientRect() }),
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        autocompletion({ icons: false }),
        sql({ dialect, upperCaseKeywords: true }),
        dialect.language.data.of({ autocomplete: source(tables, functions) }),
        syntaxHighlighting(colours),
        explained(told),
        lintGutter(),
        EditorView.domEventHandlers({ beforeinput: replace }),
        EditorView.contentAttributes.of({ "aria-label": "Query" }),
        EditorView.lineWrapping,
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });
}
