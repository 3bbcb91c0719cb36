// A sealed model in a session of Go's binding of ONNX Runtime: reads a row of floats as JSON, writes the answer.
//
//	infer SOCKET PACKAGE COMPONENT VARIANT
//
// $ORT_LIBRARY is ONNX Runtime's shared library. The binding takes a model's bytes and no files beside it, so the
// model is imported with its weights inside: sealcar import --keep-inline.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	ort "github.com/yalue/onnxruntime_go"

	pb "sealcar.test/client/sealcar/v1"
	"sealcar.test/client/sealed"
)

func model(socket string, scope *pb.Scope) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	line, err := sealed.Connect(socket)
	if err != nil {
		return nil, err
	}
	defer line.Close()
	payloads := pb.NewPayloadsClient(line)
	opened, err := payloads.Open(ctx, &pb.OpenRequest{Scope: scope})
	if err != nil {
		return nil, err
	}
	name := ""
	for _, payload := range opened.Variant.Payloads {
		if payload.Kind == pb.PayloadKind_PAYLOAD_KIND_MODEL {
			name = payload.Name
		}
	}
	return sealed.Read(ctx, payloads, opened.Scope, name)
}

func infer(model []byte, row []float32) ([]float32, error) {
	session, err := ort.NewDynamicAdvancedSessionWithONNXData(model, []string{"x"}, []string{"y"}, nil)
	if err != nil {
		return nil, err
	}
	defer session.Destroy()
	x, err := ort.NewTensor(ort.NewShape(1, int64(len(row))), row)
	if err != nil {
		return nil, err
	}
	defer x.Destroy()
	answers := []ort.Value{nil}
	if err = session.Run([]ort.Value{x}, answers); err != nil {
		return nil, err
	}
	defer answers[0].Destroy()
	y := answers[0].(*ort.Tensor[float32]).GetData()
	return append([]float32(nil), y...), nil
}

func run(a []string) error {
	// before the library is loaded, which would keep a database of events on the disk
	os.Setenv("ORT_DISABLE_TELEMETRY", "1")
	ort.SetSharedLibraryPath(os.Getenv("ORT_LIBRARY"))
	if err := ort.InitializeEnvironment(); err != nil {
		return err
	}
	defer ort.DestroyEnvironment()
	var row []float32
	if err := json.NewDecoder(os.Stdin).Decode(&row); err != nil {
		return err
	}
	scope := &pb.Scope{Package: &pb.PackageRef{Name: a[2]}, Component: a[3], Variant: a[4]}
	data, err := model(a[1], scope)
	if err != nil {
		return err
	}
	answer, err := infer(data, row)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

func main() {
	if err := run(os.Args); err != nil {
		log.Fatal(err)
	}
}
