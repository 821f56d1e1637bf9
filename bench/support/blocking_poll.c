/* ext/core/examples/blocking_poll.rs for Ruby: the GVL is given away where it blocks, and nowhere else. Compiled by
 * bench/support/blocking_peer.rb for the Ruby that runs the bench. */

#include <ruby.h>
#include <ruby/thread.h>

struct peer;
struct peer *peer_open(const char *options, const char *topic);
int peer_produce(const struct peer *peer, const void *payload, size_t size, uint64_t number);
void peer_poll(const struct peer *peer, int millis);
size_t peer_take(const struct peer *peer, uint64_t *numbers, size_t room);
void peer_close(struct peer *peer);

static struct peer *peer_of(VALUE address) { return (struct peer *)NUM2ULL(address); }

static VALUE open_peer(VALUE self, VALUE options, VALUE topic)
{
    struct peer *peer = peer_open(StringValueCStr(options), StringValueCStr(topic));
    if (!peer) rb_raise(rb_eArgError, "librdkafka refused the options");
    return ULL2NUM((unsigned long long)peer);
}

static VALUE produce(VALUE self, VALUE peer, VALUE payload, VALUE number)
{
    return INT2NUM(peer_produce(peer_of(peer), RSTRING_PTR(payload), RSTRING_LEN(payload), NUM2ULL(number)));
}

struct poll { struct peer *peer; int millis; };

static void *poll_without_gvl(void *arguments)
{
    struct poll *poll = arguments;
    peer_poll(poll->peer, poll->millis);
    return NULL;
}

/* The numbers of the messages that are reported. */
static VALUE poll(VALUE self, VALUE peer, VALUE millis)
{
    struct poll arguments = { peer_of(peer), NUM2INT(millis) };
    uint64_t numbers[1024];
    size_t count;
    VALUE list = rb_ary_new();
    rb_thread_call_without_gvl(poll_without_gvl, &arguments, NULL, NULL);
    while ((count = peer_take(arguments.peer, numbers, 1024)) > 0)
        for (size_t index = 0; index < count; index++) rb_ary_push(list, ULL2NUM(numbers[index]));
    return list;
}

static void *close_without_gvl(void *peer)
{
    peer_close(peer);
    return NULL;
}

static VALUE close_peer(VALUE self, VALUE peer)
{
    rb_thread_call_without_gvl(close_without_gvl, peer_of(peer), NULL, NULL);
    return Qnil;
}

void Init_blocking_poll(void)
{
    VALUE module = rb_define_module("BlockingPoll");
    rb_define_module_function(module, "open", open_peer, 2);
    rb_define_module_function(module, "produce", produce, 3);
    rb_define_module_function(module, "poll", poll, 2);
    rb_define_module_function(module, "close", close_peer, 1);
}
