{{ config(materialized='materialized_view') }}
SELECT s.customer, c.name, s.amount,
  CASE WHEN s.amount >= 10 THEN 'gold' ELSE 'silver' END AS level
FROM {{ ref('spending') }} s JOIN {{ ref('customers_seen') }} c ON s.customer = c.customer
