// Package sealed reads models by sealcar's C client: sealcar.c, sealcar.h and abi.h lie beside this file, and cgo
// compiles them.
package sealed

/*
#cgo CFLAGS: -std=c11 -O2
#include "sealcar.h"
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"unsafe"
)

func failure(e *C.sealcar_error) error {
	return errors.New(C.GoString(&e.text[0]))
}

// Model returns the model of a variant. The directory is that of the daemon's sockets.
func Model(directory, pkg, component, variant string) ([]byte, error) {
	var client *C.sealcar_client
	var scope *C.sealcar_scope
	var e C.sealcar_error
	texts := [4]*C.char{}
	for at, each := range []string{directory, pkg, component, variant} {
		texts[at] = C.CString(each)
		defer C.free(unsafe.Pointer(texts[at]))
	}
	if C.sealcar_connect(texts[0], -1, 30000, nil, &client, &e) != 0 {
		return nil, failure(&e)
	}
	defer C.sealcar_disconnect(client)
	// what C is given a pointer to holds no pointers of Go's
	name := C.struct_sealcar_name{component: texts[2], variant: texts[3]}
	name._package = texts[1]
	if C.sealcar_open(client, &name, &scope, &e) != 0 {
		return nil, failure(&e)
	}
	defer C.sealcar_close(scope)
	opened := C.sealcar_variant_of(scope)
	for _, payload := range unsafe.Slice(opened.payloads, opened.count) {
		if payload.kind == C.SEALCAR_MODEL {
			data := make([]byte, payload.size)
			if C.sealcar_read(scope, payload.name, unsafe.Pointer(unsafe.SliceData(data)), payload.size, &e) != 0 {
				return nil, failure(&e)
			}
			return data, nil
		}
	}
	return nil, errors.New("the variant has no model")
}
