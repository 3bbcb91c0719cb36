/* The compat wrapper's three parts: function tables, provider objects, and the library's entry
 * points. See ep_compat.c. */
#ifndef SEALCAR_EP_COMPAT_H
#define SEALCAR_EP_COMPAT_H

#include "abi.h"

/* a plugin's library; never unloaded, and what it looked up is a fact about all its providers */
struct plugin {
    void *handle;
    int supports; /* SUPPORT_… whose accessor it looked up; atomic */
    struct plugin *next;
};

/* the plugin whose code runs below us on this thread, for what it looks up */
extern _Thread_local struct plugin *sealcar_ep_resolving;

/* 1 once the runtime is known to have the stable functions */
int sealcar_ep_tables_open(const struct api_base *base);
const struct api_base *sealcar_ep_base(void);
void *sealcar_ep_status(const char *text);

/* Put a wrapper around a provider object; leaves *ep alone where it needs none. */
void *sealcar_ep_wrap(void ***ep, struct plugin *plugin, const void *factory);
/* The plugin's own object for what the runtime holds; unwrap also forgets and frees the wrapper. */
void *sealcar_ep_inner(const void *ep);
void *sealcar_ep_unwrap(void *ep);
size_t sealcar_ep_count(const void *factory);

#endif
