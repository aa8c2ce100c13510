r"""The classes of characters that Java's regular expressions name: `\d`, `\h`, `\p{Alpha}`, `\p{Lu}`."""

from __future__ import annotations

import re
from functools import lru_cache

from daggersql.functions.codepoints import (
    EVERYTHING,
    CodePoints,
    by_category,
    characters,
    complement,
    union,
)

_DIGITS: CodePoints = ((0x30, 0x39),)
_UPPER: CodePoints = ((0x41, 0x5A),)
_LOWER: CodePoints = ((0x61, 0x7A),)
_ALPHA = union(_UPPER, _LOWER)
_ALNUM = union(_ALPHA, _DIGITS)
_SPACE = characters("\t\n\x0b\f\r ")
_PUNCT = characters("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

LINE_ENDS = characters("\n\x0b\f\r\x85\u2028\u2029")
r"""Characters that `\R` and `\v` match."""
TERMINATORS = characters("\n\r\x85\u2028\u2029")
"""Line terminators, which a dot does not match, and before which `$` matches."""

_LETTERS = {
    "d": _DIGITS,
    "w": union(_ALNUM, characters("_")),
    "s": _SPACE,
    "h": union(characters(" \t\xa0\u1680\u180e\u202f\u205f\u3000"), ((0x2000, 0x200A),)),
    "v": LINE_ENDS,
}
CLASSES = _LETTERS | {letter.upper(): complement(one) for letter, one in _LETTERS.items()}
"""Sets by the letter behind a backslash."""

_POSIX: dict[str, CodePoints] = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ((0, 0x7F),),
    "Alpha": _ALPHA,
    "Digit": _DIGITS,
    "Alnum": _ALNUM,
    "Punct": _PUNCT,
    "Graph": union(_ALNUM, _PUNCT),
    "Print": union(_ALNUM, _PUNCT, characters(" ")),
    "Blank": characters(" \t"),
    "Cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "XDigit": union(_DIGITS, ((0x41, 0x46), (0x61, 0x66))),
    "Space": _SPACE,
    "L1": ((0, 0xFF),),
    "all": EVERYTHING,
}
_CASED = ("Lu", "Ll", "Lt")
_CATEGORY = re.compile(r"(?:Is|gc=|general_category=)?([A-Z][a-z]?)")
# Java knows them by tables that Python does not have.
_SCRIPTS = """
alphabetic ideographic letter lowercase uppercase titlecase punctuation control white_space digit
hex_digit join_control noncharacter_code_point assigned arabic armenian bengali bopomofo cherokee common
cyrillic devanagari ethiopic georgian greek gujarati gurmukhi han hangul hebrew hiragana inherited
javanese kannada katakana khmer lao latin malayalam mongolian myanmar oriya sinhala sundanese syriac
tamil telugu thaana thai tibetan balinese batak buginese
"""
_BLOCKS = """
basiclatin basic_latin greek cyrillic armenian hebrew arabic devanagari bengali tamil thai lao tibetan
khmer hiragana katakana hangulsyllables cjkunifiedideographs cjk_unified_ideographs generalpunctuation
javanese balinese sundanese
"""
_METHODS = """
javaLowerCase javaUpperCase javaAlphabetic javaIdeographic javaTitleCase javaDigit javaDefined
javaLetter javaLetterOrDigit javaSpaceChar javaWhitespace javaISOControl javaMirrored
javaJavaIdentifierStart javaJavaIdentifierPart javaUnicodeIdentifierStart javaUnicodeIdentifierPart
javaIdentifierIgnorable
"""


@lru_cache(maxsize=256)
def find_class(name: str, *, ignore_case: bool) -> CodePoints | None:
    r"""Find the class `\p{name}`; None for one that only Java has. Raises: `re.error` for any other name."""
    if name in _POSIX:
        return _ALPHA if ignore_case and name in ("Lower", "Upper") else _POSIX[name]
    category = _CATEGORY.fullmatch(name)
    if category is not None and (category[1] == "LC" or (ignore_case and category[1] in _CASED)):
        return union(*(by_category()[category] for category in _CASED))
    if category is not None and category[1] in by_category():
        return by_category()[category[1]]
    kind, _, word = name.rpartition("=")
    script = word if kind in ("script", "sc", "IsScript", "IsSc") else name.removeprefix("Is")
    block = word if kind in ("block", "blk") else name.removeprefix("In")
    if (
        (script != name and script.lower() in _SCRIPTS.split())
        or (block != name and block.lower() in _BLOCKS.split())
        or name in _METHODS.split()
    ):
        return None
    raise re.error(f"there is no class of characters named {name}")
