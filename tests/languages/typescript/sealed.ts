// Reads payloads from sealcar's gRPC socket.
import { credentials, type ServiceError } from "@grpc/grpc-js";
import type { Scope } from "./generated/sealcar/v1/common";
import { PayloadsClient, ReadRequest, type ReadResponse } from "./generated/sealcar/v1/payloads";

export type Answer<T> = (error: ServiceError | null, answer: T) => void;

export function call<T>(begin: (answer: Answer<T>) => unknown): Promise<T> {
  return new Promise((resolve, reject) =>
    begin((error, answer) => (error ? reject(error) : resolve(answer))),
  );
}

// On a Unix socket the daemon takes no credentials and asks the kernel who calls.
export function connect(socket: string): PayloadsClient {
  return new PayloadsClient(`unix:${socket}`, credentials.createInsecure());
}

// A payload counts only when its stream ended without an error, which the loop throws.
export async function read(payloads: PayloadsClient, scope: Scope, name: string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of payloads.read(ReadRequest.fromPartial({ scope, name }))) {
    pieces.push(Buffer.from((piece as ReadResponse).data));
  }
  return Buffer.concat(pieces);
}
