// Package sealed reads payloads from sealcar's gRPC socket.
package sealed

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "sealcar.test/client/sealcar/v1"
)

// Connect prepares a line to the daemon: on a Unix socket it takes no credentials and asks the kernel who calls.
func Connect(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// Read returns a payload, which counts only when its stream ended without an error.
func Read(ctx context.Context, payloads pb.PayloadsClient, scope *pb.Scope, name string) ([]byte, error) {
	stream, err := payloads.Read(ctx, &pb.ReadRequest{Scope: scope, Name: name})
	if err != nil {
		return nil, err
	}
	var whole []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return nil, err
		}
		whole = append(whole, piece.Data...)
	}
}
