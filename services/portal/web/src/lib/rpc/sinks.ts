import { createClient } from "@connectrpc/connect";
import { SinkService } from "../../gen/daggers/v1/sink_service_pb.ts";
import { once } from "./transport.ts";

export const sinks = createClient(SinkService, once);
