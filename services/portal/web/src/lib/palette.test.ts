import { expect, it } from "vitest";
import { found, MOST, type Place } from "./palette.ts";

const place = (name: string, kind: string): Place => ({ href: `/${name}`, name, kind });
const PLACES = [
  place("Streams", "page"),
  place("orders_by_city", "dagger"),
  place("city_orders", "dagger"),
  place("orders", "stream"),
];

it("places are found by each word, those that begin with it first", () => {
  const names = (text: string): string[] => found(PLACES, text).map((each) => each.name);
  expect(names("orders")).toEqual(["orders_by_city", "orders", "city_orders"]);
  expect(names("CITY dagger")).toEqual(["city_orders", "orders_by_city"]);
  expect(names("none of these")).toEqual([]);
  expect(names("")).toHaveLength(PLACES.length);
});

it("no more are offered than fit", () => {
  const many = Array.from({ length: 1_000 }, (_, at) => place(`dagger_${at}`, "dagger"));
  expect(found(many, "dagger")).toHaveLength(MOST);
});
