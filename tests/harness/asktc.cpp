// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See askwork.h: the same, linked statically with tcmalloc, asking as C++ programs do, by the virtual
 * function. `asktc REQUESTS TURNS BLOCKS`.
 * LIBS: -l:libtcmalloc_minimal.a
 */
#include <gperftools/malloc_extension.h>

#include "askwork.h"

static size_t property;

ASK_CALLERS(property, MallocExtension::instance()->GetNumericProperty(
			      "generic.current_allocated_bytes", &property))

int main(int argc, char **argv)
{
	static const struct ask ask = {"property", property_report, property_limit};

	return serve(argc - 1, argv + 1, &ask);
}
