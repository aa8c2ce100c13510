"""The function reference in docs/ is what the functions say of themselves."""

from pathlib import Path

from daggersql.functions import reference, registry

FILE = Path(__file__).parents[3] / "docs" / "functions.md"


def test_the_function_reference_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == reference.text(), "run `make functions-doc`"


def test_every_function_of_our_own_is_documented_with_all_its_parameters() -> None:
    lacking = [
        each.name
        for each in registry.own()
        if each.doc is None
        or not each.doc.about
        or bool(each.doc.parameters) != bool(each.signatures[0].parameters)
    ]

    assert lacking == []
