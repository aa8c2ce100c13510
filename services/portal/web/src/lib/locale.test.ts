import { describe, expect, it } from "vitest";
import { formats } from "./format.ts";
import { mend, usable, zoneOf } from "./locale.ts";

/** As browsers and their systems name languages; what is none among them. */
const NAMED = [
  "en-US@posix", "en_US.UTF-8", "C", "C.UTF-8", "POSIX", "", "*", "und", "x-private", "i-klingon", "en-GB", "en-US",
  "de", "de-CH-1996", "de_DE@euro", "fr-CA", "pt_BR.iso88591", "id", "id-ID", "vi-VN", "th-TH-u-ca-buddhist",
  "ar-EG", "fa-IR", "he", "hi-IN", "bn", "ja-JP-u-ca-japanese", "zh-Hant-TW", "zh_CN.GB2312", "sr-Latn-RS@latin",
  "ca-ES@valencia", "ru", "tr", "el", "ko", "ta-LK", "xx-YY", "en-US-x-twain", "zz", "a", "abcdefghij", "日本語",
]; // prettier-ignore
const ZONES = ["UTC", "Asia/Jakarta", "America/St_Johns", "Etc/Unknown", "", "nowhere"];
const AT = Date.UTC(2026, 10, 23, 5, 43);

describe("what a browser calls a language", () => {
  it.each(NAMED)("%j is one that every format takes, or gives way", (named) => {
    const found = usable([named]);
    expect(found.length).toBeGreaterThan(0);
    for (const zone of ZONES) {
      const made = formats(found, zoneOf(zone));
      const texts = [
        made.count(1204.25),
        made.amount(9007199254740993n),
        made.clock(AT),
        made.zoned(AT, AT),
        made.instant(AT),
        made.tick(AT, true),
      ];
      expect(texts.every((text) => text.length > 2)).toBe(true);
    }
  });
  it("keeps its own words for numbers and times", () => {
    const german = formats(usable(["de_DE.UTF-8"]), "Europe/Berlin");
    expect([german.count(1234567.8), german.amount(9007199254740993n)]).toEqual([
      "1.234.567,8",
      "9.007.199.254.740.993",
    ]);
    expect(german.instant(AT)).toMatch(/^23\. Nov\.? 2026, 06:43:00 MEZ$/);
    expect(formats(["en-US"], "UTC").clock(AT, AT)).toMatch(/^05:43:00.AM$/);
    expect(formats(["en-GB"], "UTC").clock(AT, AT + 86_400_000)).toBe("23 Nov 2026, 05:43");
  });
  it("is mended for scripts that make formats of it themselves, and left where it is one", () => {
    for (const named of NAMED) {
      const browser = { language: named };
      mend(browser);
      expect(() => new Intl.NumberFormat(browser.language)).not.toThrow();
    }
    const browser = { language: "de-CH" };
    mend(browser);
    expect(browser.language).toBe("de-CH");
  });
});
