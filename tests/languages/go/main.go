// A client of sealcar's gRPC in Go: lists, reads a payload as a stream, writes it as a new variant.
//
//	client SOCKET|HOST:PORT PACKAGE COMPONENT VARIANT PAYLOAD NEW_VARIANT
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	pb "sealcar.test/client/sealcar/v1"
)

const pieceSize = 512 << 10

// On a Unix socket the daemon takes no credentials and asks the kernel who calls; elsewhere both show certificates.
func connect(target string) (*grpc.ClientConn, error) {
	if strings.HasPrefix(target, "/") {
		return grpc.NewClient("unix://"+target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	own, err := tls.LoadX509KeyPair(os.Getenv("SEALCAR_TLS_CERT"), os.Getenv("SEALCAR_TLS_KEY"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(os.Getenv("SEALCAR_TLS_CA"))
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(authority)
	both := &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: authorities}
	return grpc.NewClient(target, grpc.WithTransportCredentials(credentials.NewTLS(both)))
}

func list(ctx context.Context, line *grpc.ClientConn) ([]string, error) {
	var names []string
	request := &pb.ListRequest{}
	for {
		page, err := pb.NewPackageStoreClient(line).List(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, one := range page.Packages {
			names = append(names, one.Package.Name)
		}
		if request.PageToken = page.NextPageToken; request.PageToken == "" {
			return names, nil
		}
	}
}

// A payload counts only when its stream ended without an error.
func read(ctx context.Context, payloads pb.PayloadsClient, scope *pb.Scope, name string) ([]byte, error) {
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

func write(ctx context.Context, payloads pb.PayloadsClient, id []byte, name string, kind pb.PayloadKind, data []byte) error {
	stream, err := payloads.Write(ctx)
	if err != nil {
		return err
	}
	begin := &pb.WriteBegin{Transaction: id, Name: name, Kind: kind}
	// an error of Send is io.EOF: the reason comes with CloseAndRecv
	err = stream.Send(&pb.WriteRequest{Step: &pb.WriteRequest_Begin{Begin: begin}})
	for at := 0; err == nil && at < len(data); at += pieceSize {
		piece := data[at:min(at+pieceSize, len(data))]
		err = stream.Send(&pb.WriteRequest{Step: &pb.WriteRequest_Data{Data: piece}})
	}
	_, err = stream.CloseAndRecv()
	return err
}

func run(target string, scope *pb.Scope, payload, variant string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	line, err := connect(target)
	if err != nil {
		return err
	}
	defer line.Close()
	names, err := list(ctx, line)
	if err != nil {
		return err
	}
	payloads := pb.NewPayloadsClient(line)
	opened, err := payloads.Open(ctx, &pb.OpenRequest{Scope: scope})
	if err != nil {
		return err
	}
	data, err := read(ctx, payloads, opened.Scope, payload)
	if err != nil {
		return err
	}
	model, err := read(ctx, payloads, opened.Scope, "model.onnx")
	if err != nil {
		return err
	}
	scope.Variant = variant
	begun, err := payloads.Begin(ctx, &pb.BeginRequest{Scope: scope})
	if err != nil {
		return err
	}
	if err = write(ctx, payloads, begun.Transaction, "model.onnx", pb.PayloadKind_PAYLOAD_KIND_MODEL, model); err != nil {
		return err
	}
	if err = write(ctx, payloads, begun.Transaction, payload, pb.PayloadKind_PAYLOAD_KIND_BLOB, data); err != nil {
		return err
	}
	committed, err := payloads.Commit(ctx, &pb.CommitRequest{Transaction: begun.Transaction, Payloads: 2})
	if err != nil {
		return err
	}
	digest := sha256.Sum256(data)
	answer, err := json.Marshal(map[string]any{
		"packages": names, "sha256": hex.EncodeToString(digest[:]), "generation": committed.Scope.Generation,
	})
	fmt.Println(string(answer))
	return err
}

func main() {
	a := os.Args
	scope := &pb.Scope{Package: &pb.PackageRef{Name: a[2]}, Component: a[3], Variant: a[4]}
	if err := run(a[1], scope, a[5], a[6]); err != nil {
		log.Fatal(err)
	}
}
