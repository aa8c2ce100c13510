"""SQL's functions of JSON: what they say ON EMPTY and ON ERROR becomes plainer calls."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from daggersql.limits import MAX_COLUMNS
from daggersql.syntax import tree
from daggersql.syntax.expressions import ExpressionParser

_LAX: Final = re.compile(r"\s*lax\s+(?=\$)")
"""Optional begin of a path: all paths are lax."""


class JsonParser(ExpressionParser):
    """The grammar of JSON_VALUE, JSON_EXISTS and JSON_QUERY."""

    def _json_value(self, start: int) -> tree.Node:
        """JSON_VALUE(text, path [RETURNING type] [DEFAULT x ON EMPTY] [… ON ERROR]), in plainer calls."""
        name, arguments = self._json_arguments()
        to = self._data_type() if self._take_word("RETURNING") else None
        defaults: dict[str, tree.Node] = {}
        while not self._is_symbol(")"):
            default = self._json_default()
            self._expect_word("ON")
            if not self._is_word("EMPTY", "ERROR"):
                self._refuse_token("EMPTY or ERROR is missing here")
            defaults[self._take().text.upper()] = default
        self._expect_symbol(")")

        def call(function: str, *given: tree.Node) -> tree.Node:
            return self._at(tree.Anonymous(this=function, expressions=[node.copy() for node in given]), start)

        value = call(name, *arguments)
        if to is not None:
            value = self._at(tree.Cast(this=value, to=to), start)
        if len(arguments) != 2 or all(isinstance(default, tree.Null) for default in defaults.values()):
            return value
        text, path = arguments
        whole = self._at(tree.Literal.string("$"), start)
        there, valid = call("JSON_EXISTS", text, path), call("JSON_EXISTS", text, whole)
        nested = self._is_known(call("JSON_QUERY", text, path), start)
        wrong = self._at(tree.Or(this=self._at(tree.Not(this=valid), start), expression=nested), start)
        if to is not None:
            # What is there and has become nothing could not be converted.
            there_as_text = self._is_known(call(name, *arguments), start)
            wrong = self._at(tree.Or(this=wrong, expression=there_as_text), start)
        empty = self._at(tree.And(this=valid.copy(), expression=self._at(tree.Not(this=there), start)), start)
        branches = [
            self._at(tree.If(this=condition, true=answer), start)
            for condition, answer in (
                (self._is_known(value, start), value.copy()),
                (empty, defaults.get("EMPTY", self._at(tree.Null(), start))),
                (wrong, defaults.get("ERROR", self._at(tree.Null(), start))),
            )
        ]
        return self._at(tree.Case(ifs=branches), start)

    def _json_exists(self, start: int) -> tree.Node:
        """JSON_EXISTS(text, path [TRUE | FALSE | UNKNOWN ON ERROR]), in plainer calls."""
        name, arguments = self._json_arguments()
        value = self._at(tree.Anonymous(this=name, expressions=arguments), start)
        if self._take_symbol(")"):
            return value
        if self._is_word("ERROR"):
            self._refuse_error("FALSE")
        if not self._is_word("TRUE", "FALSE", "UNKNOWN"):
            self._refuse_token("')' is missing here")
        place, word = self._start, self._take().text.upper()
        answer = self._at(tree.Null() if word == "UNKNOWN" else tree.Boolean(this=word == "TRUE"), place)
        self._expect_word("ON")
        self._expect_word("ERROR")
        self._expect_symbol(")")
        if len(arguments) != 2:
            return value
        whole = self._at(tree.Literal.string("$"), start)
        given = [arguments[0].copy(), whole]
        valid = self._at(tree.Anonymous(this=name, expressions=given), start)
        branches = [
            self._at(tree.If(this=valid, true=value), start),
            self._at(tree.If(this=self._at(tree.Not(this=valid.copy()), start), true=answer), start),
        ]
        return self._at(tree.Case(ifs=branches), start)

    def _json_call(self, start: int) -> tree.Node:
        name, arguments = self._json_arguments()
        self._expect_symbol(")")
        return self._at(tree.Anonymous(this=name, expressions=arguments), start)

    def _json_arguments(self) -> tuple[str, list[tree.Node]]:
        """Parse a function's name and arguments; remove the word `lax` from the path."""
        name = self._take().text
        self._expect_symbol("(")
        arguments = self._commas(self._expression, most=MAX_COLUMNS)
        path = arguments[1] if len(arguments) > 1 else None
        if isinstance(path, tree.Literal) and path.is_string and (lax := _LAX.match(path.name)):
            bare = tree.Literal.string(path.name[lax.end() :])
            bare.meta.update(path.meta)
            arguments[1] = bare
        return name, arguments

    def _refuse_error(self, instead: str) -> NoReturn:
        others = "FALSE, TRUE or UNKNOWN" if instead == "FALSE" else "NULL or DEFAULT"
        self._refuse("UNSUPPORTED_OPERATION", f"One bad text must not end the job: use {others}.", instead)

    def _json_default(self) -> tree.Node:
        if self._is_word("ERROR"):
            self._refuse_error("NULL")
        start = self._start
        if self._take_word("NULL"):
            return self._at(tree.Null(), start)
        self._expect_word("DEFAULT")
        return self._expression()

    def _is_known(self, value: tree.Node, start: int) -> tree.Node:
        same = self._at(tree.Is(this=value, expression=self._at(tree.Null(), start)), start)
        return self._at(tree.Not(this=same), start)
