import { createClient } from "@connectrpc/connect";
import { AlertService } from "../../gen/daggers/v1/alert_service_pb.ts";
import { once } from "./transport.ts";

export const alerts = createClient(AlertService, once);
