import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AccessService } from "../gen/daggers/v1/access_service_pb.ts";
import { AlertService } from "../gen/daggers/v1/alert_service_pb.ts";
import { CatalogService } from "../gen/daggers/v1/catalog_service_pb.ts";
import { DaggerService } from "../gen/daggers/v1/dagger_service_pb.ts";
import { QuarantineService } from "../gen/daggers/v1/quarantine_service_pb.ts";

const once = createConnectTransport({ baseUrl: "/api", useBinaryFormat: true, defaultTimeoutMs: 10_000 });
// Streams have no deadline: who leaves cancels them.
const open = createConnectTransport({ baseUrl: "/api", useBinaryFormat: true });

export const daggers = createClient(DaggerService, once);
export const catalog = createClient(CatalogService, once);
export const quarantine = createClient(QuarantineService, once);
export const alerts = createClient(AlertService, once);
export const access = createClient(AccessService, once);
export const streams = createClient(DaggerService, open);
export const samples = createClient(CatalogService, open);
