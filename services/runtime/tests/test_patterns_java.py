"""Java itself about the patterns that the check lets through: it reads each, and each ends."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError

from daggersql.functions.regexcost import LENGTH
from daggersql.functions.regexes import what_is_wrong

pytestmark = pytest.mark.long

_PATIENCE_S = 30.0
# Between blanks.
_TOKENS = (
    r"a b * + ? { } {2} {2,} {1,3} {3,1} {,3} ( ( ) ) (?: (?= (?! (?<= (?<! (?> (?<n> (?i) (?x) (?m: [ [ ] ]"
    r" ^ $ . | \ \d \p{L} \p{Nope} \pL \pZz \Q \E && - \1 \2 \k<n> \x41 \x{110000} \x{41} \u0041 \c \0 \07 \b"
    r" \R \X \G \z # [^ [a- \b{g} (? (?u (?-i) \h \N é 😀 : \p{IsLatin} \p{javaFoo} (?<1> \B ]] [[ \P{Lu}"
    r" \p{IsAlphabetic} \p{Is} \p{gc=Lu} \p{script=Latin} \p{block=Greek} \p{InGreek} (?d) (?U) \s \-"
)
_CHOICES = [*_TOKENS.split(), " ", "\n"]


@pytest.fixture(scope="module")
def patterns() -> Iterator[Any]:
    """java.util.regex.Pattern of a Java of its own, which ends with the test."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    command = ["java", "-Xss1m", "-cp", str(jar), "py4j.GatewayServer", "--die-on-broken-pipe", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
            yield gateway.jvm.java.util.regex.Pattern
            gateway.close()
        finally:
            process.kill()


def test_java_reads_every_pattern_that_the_check_lets_through(patterns: Any) -> None:
    chosen = random.Random(7)
    taken = 0
    refused = {}
    for _ in range(20_000):
        pattern = "".join(chosen.choice(_CHOICES) for _ in range(chosen.randint(1, 9)))
        if what_is_wrong(pattern, native=True) is None:
            taken += 1
            try:
                patterns.compile(pattern)
            except Py4JJavaError as error:
                refused[pattern] = str(error.java_exception)

    assert taken > 1_000
    assert refused == {}


def test_every_pattern_that_the_check_lets_through_ends_in_java(patterns: Any) -> None:
    chosen = random.Random(7)
    parts = ["a", "b", ".", "[ab]", r"\w", "(a)", "(?:ab)", "(a|b)", "(?:a|ab)", "(a?)", "(?:a+)", r"\1", "x"]
    repeats = ["", "", "*", "+", "?", "{0,50}", "{20}", "*?", "++"]
    taken = {"a*a*b", r".*foo.*bar.*", "a?" * 19 + "a" * 19, "(?<=a{0,900})b", "(?:a|b)*+c", "(ab)*c"}
    while len(taken) < 300:
        pattern = "".join(chosen.choice(parts) + chosen.choice(repeats) for _ in range(chosen.randint(2, 7)))
        if what_is_wrong(pattern, native=True) is None:
            taken.add(pattern)
    slow = [
        pattern
        for pattern in sorted(taken)
        for text in ("a" * (LENGTH // 2), "ab" * (LENGTH // 4))
        if not _ends(patterns, pattern, text + "!")
    ]

    assert slow == []


def _ends(patterns: Any, pattern: str, text: str) -> bool:
    matcher = patterns.compile(pattern).matcher(text)
    looking = threading.Thread(target=matcher.find, daemon=True)
    looking.start()
    looking.join(_PATIENCE_S)
    return not looking.is_alive()
