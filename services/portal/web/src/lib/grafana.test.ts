import { expect, it } from "vitest";
import { board, explore } from "./grafana.ts";

it("Grafana explores the query of the chart, of its minutes", () => {
  const query = 'from(bucket: "daggers")\n  |> filter(fn: (r) => r._measurement == "a&b")';
  const url = new URL(explore("https://grafana.example/team/", query, 60));
  expect(url.origin + url.pathname).toBe("https://grafana.example/team/explore");
  expect(url.searchParams.get("schemaVersion")).toBe("1");
  const { daggers } = JSON.parse(url.searchParams.get("panes")!);
  expect(daggers.queries).toEqual([{ refId: "A", datasource: { type: "influxdb", uid: "daggers" }, query }]);
  expect(daggers.range).toEqual({ from: "now-60m", to: "now" });
});

it("a dashboard is opened with its variables", () => {
  expect(board("http://127.0.0.1:3000", "platform")).toBe("http://127.0.0.1:3000/d/platform");
  expect(board("http://127.0.0.1:3000/", "dagger", { dagger: "orders" })).toBe(
    "http://127.0.0.1:3000/d/dagger?var-dagger=orders",
  );
});
