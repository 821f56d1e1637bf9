# frozen_string_literal: true

# How the blocks of docs/guides/outbox.md are run: see test/support/guides.rb. test/integration/outbox.rb has the model
# and the line of config/pelton.rb in a real application.
{
  "class Order < ApplicationRecord" => { not_run: "needs a database; test/integration/outbox.rb has this model" },
  "Pelton::Outbox.relay_with_server" => { not_run: "needs a database; test/integration/outbox.rb has this line" },
  "an order is announced" => { not_run: "needs a database; test/unit/outbox_test.rb asks for the messages like this" },
  "outbox.measured" => {
    after: lambda do
      Pelton.app.notifications.publish("outbox.measured", rows: 3, seconds: 61, refused: 0)
      assert_equal "the outbox is late by 61 s\n", $stdout.string
    end
  }
}
