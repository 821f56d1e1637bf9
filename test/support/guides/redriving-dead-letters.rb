# frozen_string_literal: true

{
  'Pelton.dead_letters("orders.dead")' => { after: -> { assert_equal 3, @errors.size and @errors.clear } }
}
