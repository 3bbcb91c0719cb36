/* The facts of ONNX Runtime's C ABI that the native part needs, by slot number: its tables are
 * append-only, so a slot never moves. No header of the runtime is used. */
#ifndef SEALCAR_ABI_H
#define SEALCAR_ABI_H

#include <stddef.h>
#include <stdint.h>

struct api_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

/* the first members of the runtime's allocator */
struct allocator {
    uint32_t version;
    void *(*alloc)(struct allocator *, size_t);
    void (*free)(struct allocator *, void *);
};

/* every runtime from 1.28 on accepts this version, and returns the same table for each it accepts */
enum { API_VERSION = 28 };

/* the main table */
enum {
    CREATE_STATUS = 0,
    TENSOR_DATA = 51,
    RELEASE_STATUS = 93,
    GET_EP_API = 317,
    TENSOR_SIZE = 318,
    CREATE_INITIALIZER_INFO = 389,
    GET_EXPERIMENTAL = 422,
};

/* the providers' table; from CONFIG_GET on since 1.31 */
enum {
    KERNEL_INFO_GET_EP = 43,
    CONFIG_GET = 74,
    CONFIG_RELEASE = 75,
    CONFIG_READ = 76,
    CONFIG_WRITE = 77,
    EP_API_SLOTS = 78,
};

/* a factory object, and a provider object, whose slot 0 holds a 32-bit version */
enum { FACTORY_CREATE_EP = 4, FACTORY_RELEASE_EP = 5 };
enum { EP_CALLBACK_SUPPORT = 26 };
enum { SUPPORT_READ = 1, SUPPORT_WRITE = 2 };

/* the first version with the stable callback functions */
enum { FIRST_STABLE = 31 };

/* length of the main table as version 30 has it: what a plugin that asks for less can look at */
enum { API_SLOTS_30 = 426 };

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 };

#endif
