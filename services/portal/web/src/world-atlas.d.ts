declare module "world-atlas/*.json" {
  const world: import("./lib/map/basemap.ts").Topology;
  export default world;
}
