/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where gperftools' tcmalloc keeps its figures. Addresses are the file's own. Inside target/heap
 * only. */
#ifndef SONDE_TARGET_HEAP_TCMALLOC_LAYOUT_H
#define SONDE_TARGET_HEAP_TCMALLOC_LAYOUT_H

#include "target/heap/heap.h"

enum sonde_tcmalloc_slot {
	TC_CENTRAL = 0,	 /* address of the central free lists, an array by size class      */
	TC_STRIDE,	 /* bytes of one                                                   */
	TC_COUNTER,	 /* in one: free objects, beside those in slots (64 bits)          */
	TC_SPANS,	 /* spans it has (64 bits)                                         */
	TC_USED_SLOTS,	 /* batches in its transfer cache (32 bits)                        */
	TC_CLASS,	 /* its own size class (64 bits)                                   */
	TC_CLASSES,	 /* address: how many size classes there are (32 bits)             */
	TC_CLASS_SIZE,	 /* address: bytes of an object, by class (32 bits each)           */
	TC_BATCH,	 /* address: objects of a batch, by class (32 bits each)           */
	TC_CLASS_PAGES,	 /* address: pages of a span, by class (64 bits each)              */
	TC_PAGE_SHIFT,	 /* log2 of a page                                                 */
	TC_SYSTEM,	 /* address: bytes from the system                                 */
	TC_FREE,	 /* address: of them free in the page heap                         */
	TC_UNMAPPED,	 /* address: of them given back                                    */
	TC_METADATA,	 /* address: the allocator's own bytes, beside the others          */
	TC_THREAD_HEAPS, /* address: the first thread cache                                */
	TC_THREAD_COUNT, /* address: how many there are (32 bits)                          */
	TC_THREAD_SIZE,	 /* in a thread cache: its bytes (32 bits)                         */
	TC_THREAD_NEXT,	 /* the next one                                                   */
	TC_LOCK,	 /* address: lock of the page heap (32 bits)                       */
	TC_SLOTS,
};

#define TC_CLASSES_MIN	  40
#define TC_CLASSES_MAX	  256
#define TC_STRIDE_MAX	  0x4000
#define TC_CLASS_SIZE_MAX (256 << 10)

extern const struct sonde_heap_slot sonde_tcmalloc_slots[TC_SLOTS];
int sonde_tcmalloc_derive(struct sonde_elf *elf, struct sonde_heap_layout *out);

#endif
