/**
 * A language tag that formats take, of what a browser or its system calls a language: en_US.UTF-8, en-US@posix, C.
 * Nothing where it names none.
 */
function tagOf(named: string): string[] {
  try {
    const [tag] = Intl.getCanonicalLocales(named.replace(/[@.].*$/, "").replaceAll("_", "-"));
    return tag && Intl.NumberFormat.supportedLocalesOf(tag).length ? [tag] : [];
  } catch {
    return []; // no tag at all
  }
}

/** The languages of a viewer that formats can be made for, the dearest first; English where there is none. */
export const usable = (named: readonly string[]): string[] => [...new Set(named.flatMap(tagOf)), "en"];

/** Those of who looks at this page. */
export const LOCALES: readonly string[] = usable(navigator.languages ?? [navigator.language]);

/** The time zone of who looks at this page; UTC where the browser does not know it. */
export const ZONE: string = zoneOf(new Intl.DateTimeFormat(LOCALES as string[]).resolvedOptions().timeZone);

export function zoneOf(named: string | undefined): string {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: named || "UTC" }).resolvedOptions().timeZone;
  } catch {
    return "UTC"; // Etc/Unknown, as a browser without a zone has it
  }
}

/** Give scripts of others a language that is one: uPlot makes a format of `navigator.language`, whatever it is. */
export function mend(browser: { readonly language: string } = navigator): void {
  if (!tagOf(browser.language).includes(browser.language))
    Object.defineProperty(browser, "language", { value: usable([browser.language])[0], configurable: true });
}
