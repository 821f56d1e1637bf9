/* What libc's allocator has in use, for Ruby. footprint.rb compiles it. Ruby 4.0 has no fiddle to ask with. */

#include <malloc.h>
#include <ruby.h>

/* Bytes that were allocated and not freed, over all arenas. */
static VALUE used(VALUE self)
{
    struct mallinfo2 books = mallinfo2();
    (void)self;
    return SIZET2NUM(books.uordblks + books.hblkhd);
}

void Init_malloc_books(void)
{
    rb_define_singleton_method(rb_define_module("MallocBooks"), "used", used, 0);
}
