import { createClient } from "@connectrpc/connect";
import { AccessService } from "../../gen/daggers/v1/access_service_pb.ts";
import { once } from "./transport.ts";

export const access = createClient(AccessService, once);
