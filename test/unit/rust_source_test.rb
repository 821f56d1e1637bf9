# frozen_string_literal: true

require "test_helper"
require "support/rust_source"

class RustSourceTest < Minitest::Test
  def test_types_are_those_that_a_file_defines
    text = <<~RUST
      pub(crate) struct Batch;
      unsafe impl Send for Batch {}
      type List<T> = Vec<T>;
      impl Iterator for Batch {
          type Item = u8;
      }
      pub unsafe trait Kernel {
          type Output;
      }
      mod tests {
          impl Kernel for Batch {
              type Output = ();
          }
          enum Kind { Type }
          // struct Comment;
      }
    RUST
    assert_equal %w[Batch Kernel Kind List Output], RustSource.types(text).sort
  end
end
