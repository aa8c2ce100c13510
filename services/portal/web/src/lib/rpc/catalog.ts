import { createClient } from "@connectrpc/connect";
import { CatalogService } from "../../gen/daggers/v1/catalog_service_pb.ts";
import { once, open } from "./transport.ts";

export const catalog = createClient(CatalogService, once);
export const samples = createClient(CatalogService, open);
