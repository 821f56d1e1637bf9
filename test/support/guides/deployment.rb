# frozen_string_literal: true

{
  "group.instance.id" => { before: -> { ENV["HOSTNAME"] = "billing-0" } } # a pod's name
}
