-- Selection: bids on chosen auctions.
SELECT auction, price
FROM bid
WHERE auction % {modulus} = 0
