import { createClient } from "@connectrpc/connect";
import { AuditService } from "../../gen/daggers/v1/audit_service_pb.ts";
import { once } from "./transport.ts";

export const audit = createClient(AuditService, once);
