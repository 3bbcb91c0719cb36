/* sealcar for programs that aren't in Python: payloads of a sealcar daemon on this machine, in C11,
 * and ONNX Runtime's named-buffer callbacks over them. Needs Linux and libc, nothing else.
 *
 *   sealcar_client *client;
 *   sealcar_scope *scope;
 *   sealcar_error error;
 *   struct sealcar_name name = {.package = "ocr", .component = "det", .variant = "qnn"};
 *   if (sealcar_connect(NULL, -1, 30000, OrtGetApiBase(), &client, &error) ||
 *       sealcar_open(client, &name, &scope, &error))
 *       die(error.text);
 *   OrtStatus *status = sealcar_set_read(scope, session_options);
 *
 * A function that returns int returns 0, or -1 with the error filled in, which must be given. All of
 * them may be called by several threads at once, and in a child of fork, which connects anew; only a
 * transaction is one thread's at a time, and its process's. What ends an object comes last on it. */
#ifndef SEALCAR_H
#define SEALCAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ONNX Runtime's own names; its header may be included before or after this one */
typedef struct OrtStatus OrtStatus;
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtApiBase OrtApiBase;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtModelCompilationOptions OrtModelCompilationOptions;

/* ErrorReason of proto/sealcar/v1/common.proto. The tens say who has to act: 1 the caller, 2 whoever
 * owns the damaged package, 3 the key's owner, 4 the key service's, 5 the machine's. */
enum {
    SEALCAR_INVALID_REQUEST = 10, SEALCAR_INVALID_NAME, SEALCAR_NOT_FOUND, SEALCAR_DENIED,
    SEALCAR_ALREADY_EXISTS, SEALCAR_WRONG_STATE, SEALCAR_CONFLICT, SEALCAR_INCOMPATIBLE,
    SEALCAR_NOT_AUTHENTIC = 20, SEALCAR_TRUNCATED, SEALCAR_ROLLED_BACK, SEALCAR_UNKNOWN_FORMAT,
    SEALCAR_KEY_REFUSED = 30,
    SEALCAR_KEY_UNAVAILABLE = 40, SEALCAR_LOCKED,
    SEALCAR_EXHAUSTED = 50, SEALCAR_UNAVAILABLE, SEALCAR_TIMED_OUT, SEALCAR_STORAGE,
};

typedef struct {
    int reason;              /* SEALCAR_…, or one that a newer daemon knows */
    uint64_t retry_after_ms; /* 0: trying again won't help */
    char text[1024];         /* a line of printable ASCII, never a key or a plaintext; at its end
                                "(request ID)", by which the daemon's log has more */
} sealcar_error;

/* PayloadKind of common.proto */
enum { SEALCAR_MODEL = 1, SEALCAR_INITIALIZERS, SEALCAR_BLOB, SEALCAR_OTHER };

struct sealcar_name {
    const char *package, *version; /* version NULL or "": the current one */
    const char *component, *variant;
    uint64_t generation; /* 0: the newest */
};

struct sealcar_payload {
    const char *name;
    uint64_t size;
    int kind;
};

/* One state of one variant. What it says besides names and payloads comes with the package and is
 * untrusted. */
struct sealcar_variant {
    struct sealcar_name name; /* with version and generation */
    const char *ep, *device, *compatibility, *executor_info; /* the last is JSON, or empty */
    const struct sealcar_payload *payloads;
    size_t count;
};

typedef struct sealcar_client sealcar_client;
typedef struct sealcar_scope sealcar_scope;
typedef struct sealcar_transaction sealcar_transaction;

/* Connect, once the daemon is known to be the right one.
 *   directory: of the listener; NULL: $SEALCAR_SOCKET, or else /run/sealcar/default
 *   peer_uid: that the daemon must have; -1: $SEALCAR_PEER_UID, or else root, the process's own, or
 *     that of the directory's owner, if no link leads there and only root, the process's own user
 *     and that owner can write to it and to those above
 *   timeout_ms: to wait for a daemon that isn't there yet, and of its silence afterwards
 *   ort: OrtGetApiBase(); NULL for a program that uses none of the functions below that name it */
int sealcar_connect(const char *directory, int64_t peer_uid, int timeout_ms, const OrtApiBase *ort,
                    sealcar_client **client, sealcar_error *error);
/* After its scopes and transactions are closed. NULL is fine here and for every other close. */
void sealcar_disconnect(sealcar_client *client);

/* Open a variant: component and variant are required. Needs the right "read", as all reading does. */
int sealcar_open(sealcar_client *client, const struct sealcar_name *name, sealcar_scope **scope,
                 sealcar_error *error);
/* What was opened, valid as long as the scope. */
const struct sealcar_variant *sealcar_variant_of(const sealcar_scope *scope);
void sealcar_close(sealcar_scope *scope);

/* Read a whole payload, of exactly that size, into memory of the caller; after a failure that memory
 * is zeros. */
int sealcar_read(sealcar_scope *scope, const char *payload, void *target, uint64_t size,
                 sealcar_error *error);

/* Write one variant. Needs the right "write". What was written is seen at the commit, all at once. */
int sealcar_begin(sealcar_client *client, const struct sealcar_name *name,
                  sealcar_transaction **transaction, sealcar_error *error);
int sealcar_write(sealcar_transaction *transaction, const char *payload, int kind, const void *data,
                  uint64_t size, sealcar_error *error);
/* Publish; `ep`, `device`, `compatibility` and `executor_info` (a JSON object) may be NULL, and so may
 * `generation`. Ends the transaction and frees it, also when it fails: nothing is published then,
 * unless the daemon went away meanwhile (SEALCAR_UNAVAILABLE). */
int sealcar_commit(sealcar_transaction *transaction, const char *ep, const char *device,
                   const char *compatibility, const char *executor_info, uint64_t *generation,
                   sealcar_error *error);
/* Throw everything written away and free the transaction. */
void sealcar_abort(sealcar_transaction *transaction);

/* ---- ONNX Runtime, 1.28 and later; the client was connected with its OrtApiBase --------------- */

/* OrtReadNamedBufferFunc. The state is a sealcar_scope, which must live as long as the session: the
 * variant's blobs, named as its model names them. */
OrtStatus *sealcar_read_named_buffer(void *scope, const char *name, OrtAllocator *allocator,
                                     void **buffer, size_t *size);
/* OrtWriteNamedBufferFunc. The state is a sealcar_transaction. */
OrtStatus *sealcar_write_named_buffer(void *transaction, const char *name, const void *data,
                                      size_t size);
/* Register them through whichever interface this runtime has: the stable one of 1.31 and later, or
 * the experimental one before. */
OrtStatus *sealcar_set_read(sealcar_scope *scope, OrtSessionOptions *options);
OrtStatus *sealcar_set_write(sealcar_transaction *transaction, OrtModelCompilationOptions *options);

/* For servers that build their sessions themselves, but load a library of custom operators: sets the
 * read callback on the options. $SEALCAR_PACKAGE, $SEALCAR_COMPONENT and $SEALCAR_VARIANT name the
 * scope, $SEALCAR_VERSION and $SEALCAR_GENERATION may; the daemon is found as sealcar_connect finds
 * it. Client and scopes stay for the life of the process. */
OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *ort);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
