import { createClient } from "@connectrpc/connect";
import { QuarantineService } from "../../gen/daggers/v1/quarantine_service_pb.ts";
import { once } from "./transport.ts";

export const quarantine = createClient(QuarantineService, once);
