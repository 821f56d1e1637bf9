# frozen_string_literal: true

{
  "group.instance.id" => { before: -> { ENV["POD_NAME"] = "billing-0" } } # a pod's name
}
