// Data source and dashboards are those of deploy/compose/grafana, by their uid: a test holds that they are there.
const SOURCE = { type: "influxdb", uid: "daggers" };

const base = (grafana: string): string => grafana.replace(/\/+$/, "");

/** Where Grafana explores what a query answers, of the last minutes. */
export function explore(grafana: string, query: string, minutes: number): string {
  const pane = {
    datasource: SOURCE.uid,
    queries: [{ refId: "A", datasource: SOURCE, query }],
    range: { from: `now-${minutes}m`, to: "now" },
  };
  const panes = encodeURIComponent(JSON.stringify({ daggers: pane }));
  return `${base(grafana)}/explore?schemaVersion=1&panes=${panes}&orgId=1`;
}

/** Where a dashboard is, of these variables. */
export function board(
  grafana: string,
  name: "dagger" | "platform",
  variables: Record<string, string> = {},
): string {
  const told = Object.entries(variables).map(([key, value]) => `var-${key}=${encodeURIComponent(value)}`);
  return `${base(grafana)}/d/${name}${told.length ? `?${told.join("&")}` : ""}`;
}
