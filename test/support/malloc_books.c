/* What libc's allocator has in use, for Ruby. footprint.rb compiles it. Ruby 4.0 has no fiddle to ask with. */

#include <malloc.h>
#include <ruby.h>

/* Other libcs than glibc keep no books. */
#pragma weak mallinfo2

/* Bytes that were allocated and not freed, over all arenas. 0 without books. */
static VALUE used(VALUE self)
{
    (void)self;
    if (!mallinfo2) return SIZET2NUM(0);
    struct mallinfo2 books = mallinfo2();
    return SIZET2NUM(books.uordblks + books.hblkhd);
}

void Init_malloc_books(void)
{
    rb_define_singleton_method(rb_define_module("MallocBooks"), "used", used, 0);
}
