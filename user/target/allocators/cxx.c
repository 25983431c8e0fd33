// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * operator new and delete, whatever defines them: an allocator for itself, the C++ library, or a
 * program. All of new may throw, the nothrow forms too where a handler is installed, so none gets a
 * return probe. Which of them only pass the call on is decided by their code (wrapper.h), build by
 * build.
 */
#include "core/mem.h"
#include "target/allocator.h"

#define TAKES(name)                                                                                \
	{                                                                                          \
		name, SONDE_ALLOC_NEW, .args = SONDE_ARG_RDI, .may_throw = true, .wrapper = true   \
	}
#define TAKES_ALIGNED(name)                                                                        \
	{                                                                                          \
		name, SONDE_ALLOC_NEW, .args = SONDE_ARG_RDI | SONDE_ARG_RSI, .may_throw = true,   \
				       .aligned = true, .wrapper = true                            \
	}
#define GIVES(name)                                                                                \
	{                                                                                          \
		name, SONDE_ALLOC_DELETE, .args = SONDE_ARG_RDI, .wrapper = true                   \
	}
#define GIVES_SIZED(name, with_alignment)                                                          \
	{                                                                                          \
		name, SONDE_ALLOC_DELETE_SIZED, .args = SONDE_ARG_RDI | SONDE_ARG_RSI,             \
						.aligned = with_alignment, .wrapper = true         \
	}

/* clang-format off */
const struct sonde_alloc_entry sonde_cxx_entries[] = {
	TAKES("_Znwm"),
	TAKES("_Znam"),
	TAKES("_ZnwmRKSt9nothrow_t"),
	TAKES("_ZnamRKSt9nothrow_t"),
	TAKES_ALIGNED("_ZnwmSt11align_val_t"),
	TAKES_ALIGNED("_ZnamSt11align_val_t"),
	TAKES_ALIGNED("_ZnwmSt11align_val_tRKSt9nothrow_t"),
	TAKES_ALIGNED("_ZnamSt11align_val_tRKSt9nothrow_t"),
	GIVES("_ZdlPv"),
	GIVES("_ZdaPv"),
	GIVES("_ZdlPvRKSt9nothrow_t"),
	GIVES("_ZdaPvRKSt9nothrow_t"),
	GIVES("_ZdlPvSt11align_val_t"),
	GIVES("_ZdaPvSt11align_val_t"),
	GIVES("_ZdlPvSt11align_val_tRKSt9nothrow_t"),
	GIVES("_ZdaPvSt11align_val_tRKSt9nothrow_t"),
	GIVES_SIZED("_ZdlPvm", false),
	GIVES_SIZED("_ZdaPvm", false),
	GIVES_SIZED("_ZdlPvmSt11align_val_t", true),
	GIVES_SIZED("_ZdaPvmSt11align_val_t", true),
};
/* clang-format on */
const size_t sonde_cxx_entry_count = SONDE_ARRAY_SIZE(sonde_cxx_entries);
