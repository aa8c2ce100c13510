"""Our own functions: what the check must know of them. This folder is the registry: `own/s2id.py` is `S2Id`.

A module has `FUNCTION`. Its plain reference and its code for Spark are in the runtime's file of the same
name, `runtime/functions/s2id.py`: the gateway checks queries and has no Spark. A test holds both folders
together.
"""

from __future__ import annotations

import importlib
import pkgutil

from daggersql.functions.signature import Function

FUNCTIONS: tuple[Function, ...] = tuple(
    importlib.import_module(f"{__name__}.{module.name}").FUNCTION
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name)
)

_DAGGERS = (
    "S2AreaInKm2", "Distance", "GeoHash", "PercentileAggregator", "CollectArray", "Features",
    "FeaturesWithType", "ExponentialMovingAverage", "LinearTrend", "StartOfMonth", "EndOfMonth",
    "StartOfWeek", "EndOfWeek", "TimeInDate", "FormatTimeInZone", "TimestampFromUnix", "ElementAt",
    "ListContains", "ArrayOperate", "ArrayAggregate", "MapGet", "Split", "SelectFields", "Filters",
    "CondEq", "SingleFeatureWithType", "JsonQuery", "JsonUpdate", "JsonDelete", "ByteToString",
    "DartGet", "DartContains", "HistogramBucket", "OutlierMad",
)  # fmt: skip
NOT_YET = tuple(
    name for name in _DAGGERS if name.upper() not in {function.name.upper() for function in FUNCTIONS}
)
"""Dagger's functions that are still to come: known by name, refused with that reason."""
