import { createClient } from "@connectrpc/connect";
import { FleetService } from "../../gen/daggers/v1/fleet_service_pb.ts";
import { once } from "./transport.ts";

export const fleet = createClient(FleetService, once);
