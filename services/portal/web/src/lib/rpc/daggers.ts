import { createClient } from "@connectrpc/connect";
import { DaggerService } from "../../gen/daggers/v1/dagger_service_pb.ts";
import { once, open } from "./transport.ts";

export const daggers = createClient(DaggerService, once);
export const streams = createClient(DaggerService, open);
