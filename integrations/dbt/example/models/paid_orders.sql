{{ config(materialized='ephemeral') }}
SELECT id, customer, amount FROM {{ source('mill', 'orders') }} WHERE status = 'paid'
