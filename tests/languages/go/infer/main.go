// A sealed model in a session of Go's binding of ONNX Runtime: reads a row of floats as JSON, writes the answer.
//
//	infer DIRECTORY PACKAGE COMPONENT VARIANT
//
// The model comes through the C client, by shared memory. $ORT_LIBRARY is ONNX Runtime's shared library. The binding
// takes a model's bytes and no files beside it, so the model is imported with its weights inside: sealcar import
// --keep-inline.
package main

import (
	"encoding/json"
	"log"
	"os"

	ort "github.com/yalue/onnxruntime_go"

	"sealcar.test/client/sealed"
)

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
	model, err := sealed.Model(a[1], a[2], a[3], a[4])
	if err != nil {
		return err
	}
	answer, err := infer(model, row)
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
