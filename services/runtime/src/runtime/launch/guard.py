"""Check a query a second time, on Spark's own parse of the SQL that daggersql has emitted.

daggersql accepts only what it knows, and emits new SQL. Should that fail, this allow-list still holds: every
object of the parsed plan must be of a class, every function and table of a name, that our queries consist of.
Everything else is refused, so there is no list of attacks.

Spark's settings (`runtime.spark.session`) also refuse Java reflection, file tables and scripts; they let ADD
JAR pass.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from py4j.java_gateway import JavaObject, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from daggersql.emit import called
from runtime.errors import JobError, user

_CATALYST = "org.apache.spark.sql.catalyst"
# nodes with names that Spark looks something up by; each name is checked
_FUNCTION = f"{_CATALYST}.analysis.UnresolvedFunction"
_GENERATOR = f"{_CATALYST}.analysis.UnresolvedGenerator"
_RELATION = f"{_CATALYST}.analysis.UnresolvedRelation"
_PLANS = "Aggregate Filter Generate Join JoinHint Project SubqueryAlias Union"
_EXPRESSIONS = """
    Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Divide EqualNullSafe EqualTo
    Extract GreaterThan GreaterThanOrEqual In IntegralDivide IsNotNull IsNull LambdaFunction LessThan
    LessThanOrEqual Like Literal Multiply Not NumericEvalContext Or RLike Remainder StringTrim StringTrimLeft
    StringTrimRight Subtract TimestampAdd TimestampAddInterval TimestampDiff UnaryMinus
    UnresolvedNamedLambdaVariable
"""
_CLASSES = frozenset(
    {
        *(f"{_CATALYST}.plans.logical.{name}" for name in _PLANS.split()),
        *(f"{_CATALYST}.expressions.{name}" for name in _EXPRESSIONS.split()),
        *(f"{_CATALYST}.plans.{name}$" for name in ("Inner", "LeftOuter")),
        *(
            f"{_CATALYST}.analysis.{name}"
            for name in ("NamedParameter", "UnresolvedAttribute", "UnresolvedExtractValue")
        ),
        f"{_CATALYST}.AliasIdentifier",
        f"{_CATALYST}.FunctionIdentifier",
        _FUNCTION,
        _GENERATOR,
        _RELATION,
    }
)
# values: Spark looks up, calls or reads nothing in them
_VALUES = re.compile(
    r"org\.apache\.spark\.sql\.types\.(Array|Binary|Boolean|Byte|CalendarInterval|Date|DayTimeInterval|Decimal|"
    r"Double|Float|Integer|Long|Map|Null|Short|String|Struct|Timestamp)Type\$?|"
    r"org\.apache\.spark\.sql\.types\.(Decimal|Metadata|StructField)|"
    r"org\.apache\.spark\.unsafe\.types\.(UTF8String|CalendarInterval)|scala\.Enumeration\$Val|\[B"
)
_OPTIONS = "org.apache.spark.sql.util.CaseInsensitiveStringMap"
_GENERATORS = frozenset({"posexplode"})
_OUR_ERROR = "[daggers USER "


def check(spark: SparkSession, sql: str, tables: Collection[str], own: Collection[str]) -> None:
    """Check that Spark may run `sql`, which reads `tables` and calls our functions `own` (lower case).

    Raises: JobError (USER): FORBIDDEN_QUERY for anything that no query of ours has, SYNTAX_ERROR for what
    Spark cannot parse. It resolves, reads and runs nothing.
    """
    parser = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - Spark's parser has no other way in
    try:
        plan = parser.parsePlan(sql)
    except (ParseException, Py4JJavaError):
        raise user("SYNTAX_ERROR", "Spark does not read the converted query.") from None
    _Walk(spark, frozenset(tables), frozenset(own)).visit(plan)


class _Walk:
    """Visits all objects of a plan."""

    def __init__(self, spark: SparkSession, tables: frozenset[str], own: frozenset[str]) -> None:
        self._gateway = spark.sparkContext._gateway  # noqa: SLF001 - what it is made of is Java's
        self._tables = tables
        self._own = own
        # answers of the JVM by class: a launch would wait for hundreds of repeated calls
        self._collections: dict[str, bool] = {}
        self._sizes: dict[str, int] = {}

    def visit(self, value: object) -> None:
        """Check a node and all nodes below it. Raises: JobError."""
        if not isinstance(value, JavaObject):  # a text, a number, a truth value, or nothing
            return
        name = value.getClass().getName()
        if _VALUES.fullmatch(name):
            return
        if name == _OPTIONS:
            if not value.isEmpty():
                raise _forbidden_error("options of a table")
            return
        if name not in _CLASSES and not _is_container(name):
            raise _forbidden_error(name.rpartition(".")[2].rstrip("$"))
        self._check_names(name, value)
        for part in self._parts(value, name):
            self.visit(part)

    def _check_names(self, kind: str, node: JavaObject) -> None:
        """Check the names by which Spark will look something up."""
        match kind:
            case _ if kind == _RELATION:
                parts = self._texts(node.multipartIdentifier())
                if len(parts) != 1 or parts[0] not in self._tables:
                    raise _forbidden_error(f"the table {'.'.join(parts)}")
            case _ if kind == _GENERATOR:
                name = node.name().unquotedString()
                if name not in _GENERATORS:
                    raise _forbidden_error(f"the function {name}")
            case _ if kind == _FUNCTION:
                self._check_call(self._texts(node.nameParts()), list(self._parts(node.arguments())))

    def _check_call(self, parts: list[str], arguments: list[object]) -> None:
        name = ".".join(parts)
        if name == called.RAISES and len(arguments) == 1 and str(arguments[0]).startswith(_OUR_ERROR):
            return
        # a function of ours may emit several of Spark's: `features` and `features_toomany`
        if name not in called.functions() and name.partition("_")[0] not in self._own:
            raise _forbidden_error(f"the function {name}")

    def _texts(self, names: JavaObject) -> list[str]:
        return [str(name) for name in self._parts(names)]

    def _parts(self, value: JavaObject, name: str = "") -> Iterator[object]:
        """Yield the elements of a collection, or the constructor arguments of a node. name: its class."""
        name = name or value.getClass().getName()
        if name not in self._collections:
            self._collections[name] = is_instance_of(self._gateway, value, "scala.collection.Iterable")
        if self._collections[name]:
            parts = value.iterator()
            while parts.hasNext():
                yield parts.next()
            return
        if name not in self._sizes:  # the same for all objects of a class
            self._sizes[name] = value.productArity()
        for place in range(self._sizes[name]):
            yield value.productElement(place)


def _is_container(name: str) -> bool:
    """Tell whether a class of Scala's library is a container, whose elements are visited."""
    return name in {"scala.None$", "scala.Some"} or bool(
        re.fullmatch(r"scala\.(Tuple\d+|collection\.(immutable|mutable)\.[A-Za-z0-9$]+)", name)
    )


def _forbidden_error(part: str) -> JobError:
    return user("FORBIDDEN_QUERY", f"The converted query holds {part}, which no dagger may use.")
